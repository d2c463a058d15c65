"""The readers' desk: a chat whose clerk, a scripted model, asks a colleague what it does not know."""
