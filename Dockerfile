# Pinned by exact version. A tag can move, so add the digest from your registry
# (golang:1.26.8-bookworm@sha256:…).
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/ ./cmd/tidemark ./examples/tabletop/cmd/loadgen

# Only the programs, and the certificates for TLS to a database or a broker. The programs write no
# files, so the root may be read-only. Where images cannot be fetched, scripts/containers.sh builds
# this stage from programs built outside.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/ /
USER 65532:65532
# The program checks the worker itself, because the image has no shell. Disable this where the image
# runs another command.
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s CMD ["/tidemark", "worker", "healthcheck"]
ENTRYPOINT ["/tidemark"]
CMD ["worker"]
