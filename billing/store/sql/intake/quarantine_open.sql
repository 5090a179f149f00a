-- Open entries of one kind.
SELECT id, source, reason, content FROM quarantine WHERE kind = {kind:String} ORDER BY id
