"""A scope and a question come in, an Injection goes out: the exact texts to place and the tools to register.

Requests, previews and evaluations build their context here and nowhere else; what may be shared is cached per snapshot.
"""
