-- Reset the cursor of monitors to the first result after a change of their states' format. Earlier results send no
-- events again.
UPDATE monitor_cursor SET number = 0, told = greatest(number, told), edition = $edition WHERE edition <> $edition;
