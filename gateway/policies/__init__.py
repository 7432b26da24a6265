"""Policy files and the records that workspaces have stored come in; they are validated and compiled entry by entry.

An immutable Snapshot per workspace goes out, replaced as a whole whenever a file, a record or the time changes it.
"""
