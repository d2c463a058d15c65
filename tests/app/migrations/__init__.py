"""The test app's tables: migrated, not synced, because they refer to tables that are."""
