-- How far monitors have looked at results, and up to where they had told what happened.
SELECT number, told FROM monitor_cursor;
