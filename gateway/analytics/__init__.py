"""Used-context analytics: figures about receipts, counted off the request's path, and what they suggest.

Input: Receipt. Output: rows in a StatisticsStore, reports about them.
"""
