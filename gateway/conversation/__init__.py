"""The conversation with the model: a prepared request comes in, the reply for the client goes out, whole or streamed.

Between the two it sends as many turns as needed, runs our own tools, hides those turns and stores what was hidden.
"""
