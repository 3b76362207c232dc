-- Delete a saved view, if it has the version that was looked at; the id, if so.
DELETE FROM saved_view
WHERE view_id = $view_id AND "version" = $version
RETURNING view_id;
