-- Whether the result of a tool is a text. NULL: what is stored is JSON, or there is none.
ALTER TABLE span ADD COLUMN tool_result_is_text BOOLEAN;
