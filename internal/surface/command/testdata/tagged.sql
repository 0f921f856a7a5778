-- An event about a person.
SELECT tidemark.append('ash', '[{"type": "noted", "tags": ["who=ann"]}]'::jsonb);
