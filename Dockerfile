# The gateway alone, static, on nothing: no shell, no package manager, no root.
#
#   docker build --build-arg VERSION=v0.1.0 -t latchkey .
#   docker run --rm latchkey version
ARG GO_VERSION=1.26.8
FROM --platform=$BUILDPLATFORM golang:${GO_VERSION}-bookworm AS build
ARG TARGETOS=linux TARGETARCH=amd64
ARG VERSION=
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH} \
    go build -trimpath -buildvcs=false -ldflags="-s -w -buildid= -X main.version=${VERSION}" -o /out/latchkey ./cmd/latchkey

FROM scratch
ARG VERSION=
LABEL org.opencontainers.image.title="latchkey" \
      org.opencontainers.image.description="An idempotency gateway for fleets of AI agents" \
      org.opencontainers.image.source="https://github.com/latchkey-gateway/latchkey" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
# Authorities for https downstreams, and time zones for none: times are UTC.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/latchkey /latchkey
# Numeric, so that runAsNonRoot can be verified.
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/latchkey"]
CMD ["serve", "--config", "/etc/latchkey/config/latchkey.yaml"]
