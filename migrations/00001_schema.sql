-- +goose Up
CREATE SCHEMA tidemark;

-- +goose Down
DROP SCHEMA tidemark;
