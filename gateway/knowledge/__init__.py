"""The knowledge graph: items from files and the store → a graph per workspace → the fragment for one question.

numpy is imported only where a graph has something in it.
"""
