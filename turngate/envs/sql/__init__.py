"""Questions about SQLite databases: ``turngate/Sql-v1``."""
