"""Back up, restore, export archives, copy a database to another one."""
