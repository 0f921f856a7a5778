-- Two scheduled appends. One was refused.
INSERT INTO tidemark.scheduled (campaign_id, due_at, attempt_at, events, scheduled_at, scheduled_by, attempts, error)
VALUES ('oak', '2099-01-01 00:00Z', '2099-01-01 00:00Z',
    '[{"id": "018c5f3e-0000-7000-8000-000000000001", "type": "hold_expired", "payload": {"seat": 7}}]',
    '2026-01-01 00:00Z', NULL, 0, NULL),
    ('elm', '2026-01-02 00:00Z', '2099-01-01 00:10Z',
    '[{"id": "018c5f3e-0000-7000-8000-000000000002", "type": "invoice_due", "actor": "ada", "payload": {"amount": 3}},
      {"id": "018c5f3e-0000-7000-8000-000000000003", "type": "noted"}]',
    '2026-01-01 00:00Z', 'billing', 3, 'event 0 (invoice_due) of campaign elm: payload has 513 bytes');
