"""The newsroom: one story goes from draft over fact check and editor's review to print."""
