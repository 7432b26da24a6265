throw new Error("This module fails on purpose.");
