"""The text of documents. Bytes of text, HTML, PDF or DOCX files come in; plain text goes out, or a ValueError that says
in a sentence why there is none."""
