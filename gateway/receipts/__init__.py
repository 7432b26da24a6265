"""Receipts: the account of each exchange, recorded off the request's path.

Input: Exchange. Output: Receipt, in a ReceiptStore.
"""
