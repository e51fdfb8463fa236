"""Replays side by side: the table, the pictures and the page that is made of them."""
