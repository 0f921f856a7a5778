# Pinned by exact version. A tag can move: add the digest that your registry has (golang:1.26.8-bookworm@sha256:…).
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/ ./cmd/tidemark ./examples/tabletop/cmd/loadgen

# Nothing but the programs, and the certificates that TLS to a database or a broker needs. They write no files: the root may be read-only.
# scripts/containers.sh builds this stage from programs built outside, where no image can be fetched.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/ /
USER 65532:65532
# The program asks the worker itself, since there is no shell. Turn it off where the image runs another command.
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s CMD ["/tidemark", "worker", "healthcheck"]
ENTRYPOINT ["/tidemark"]
CMD ["worker"]
