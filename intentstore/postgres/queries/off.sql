-- off: the rest of this transaction need not wait for the disk: arrivals are a journal.
SELECT set_config('synchronous_commit', 'off', true)
