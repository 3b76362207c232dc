-- Begin at the first result again where states look otherwise; what happened before was told.
UPDATE monitor_cursor SET number = 0, told = greatest(number, told), edition = $edition WHERE edition <> $edition;
