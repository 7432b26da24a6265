"""What nodes of the content tree say: ids come in, texts, properties and links go out, wherever they are kept.

What users do with nodes is noted here too, and stored a moment later.
"""
