-- A key that does not open, which a failed campaign names.
INSERT INTO tidemark.keys (id, subject, wrapped, wrapped_by)
VALUES ('01a21831-0aaf-7001-9512-0e2cf06179e0', sha256('eve'), sha256('x'), 'a');
