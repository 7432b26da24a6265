"""A request's headers and body come in; what they ask for, the Scope and the assignments that apply go out.

Every alias is looked up in one snapshot, with what the caller may see.
"""
