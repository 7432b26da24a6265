"""How relevant a document is: what the words say, what the vectors say, and both together, each 0..1.

A score depends on the question and on that one document, and on no other. The numbers were read off questions that
share no word with the page that answers them, questions in the words of a page, and everyday questions that no page
answers (scripts/node_search_eval).
"""

import math

SIMILAR, SIMILAR_SCORE = 0.32, 0.6  # a cosine, and what it is worth; .52 is worth nine tenths
STEEPNESS = 9.0
MOST_MEANT = 1  # sentences of a query whose meaning counts: the first is the whole question
PATIENCE = 0.6  # of a collector's time, that the vectors of the question may take
LEAST_WORDS = 0.75  # of their score that words keep where the meaning is another one
CONFIRMED = 0.3  # the cosine from which words count in full


def rate_cosine(cosine: float, similar: float = SIMILAR) -> float:
    """How relevant a document is by its meaning alone."""
    offset = math.log(SIMILAR_SCORE / (1 - SIMILAR_SCORE))
    return 1 / (1 + math.exp(-STEEPNESS * (cosine - similar) - offset))


def confirm_words(score: float, cosine: float) -> float:
    """What words are worth where the whole meaning is known: the same words are often about something else."""
    share = min(1.0, max(0.0, cosine) / CONFIRMED)
    return score * (LEAST_WORDS + (1 - LEAST_WORDS) * share)
