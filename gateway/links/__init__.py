"""Copies of web pages that policies refer to. URLs come in, are checked and fetched in the background; the text of the
last good copy goes out, with its age and any error."""
