"""What a gateway holds in memory during and after floods that are meant to fill it."""
