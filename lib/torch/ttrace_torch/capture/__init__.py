"""What a traced step records: hooks, calls, gradients, value names, data flow, records."""
