# The image of the Deployment in manifests/: one static binary and nothing else; no shell, no package manager.
#
#   docker build -t supercargo:0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" .
#
# Builds for the architecture it runs on: arm64 needs nothing but an arm64 builder. Its build step is the one `make` has.

# With the C library that `make release-check` and the benchmarks run with, linked in. The version is that of rust-toolchain.toml.
FROM rust:1.95.0-slim-trixie AS build
# A compiler, for ring's assembly and C, and bash are there; make is what builds.
RUN apt-get update && apt-get install --yes --no-install-recommends make && rm -rf /var/lib/apt/lists/*
# rustup is told the toolchain it already has, or it would fetch clippy and rustfmt for rust-toolchain.toml.
ENV RUSTUP_TOOLCHAIN=1.95.0 CARGO_TARGET_DIR=/build
WORKDIR /source
COPY . .
# The commit, which `--version` tells: the context has no .git.
ARG REVISION=unknown
ENV SUPERCARGO_COMMIT=${REVISION}
RUN make release-binary sbom

# Nothing is needed at run time: the API server's certificate authority comes with the service account's token.
FROM scratch
ARG REVISION=unknown
LABEL org.opencontainers.image.title="supercargo" \
      org.opencontainers.image.description="A Kubernetes scheduler that decides as kube-scheduler does" \
      org.opencontainers.image.source="https://github.com/supercargo/supercargo" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /build/dist/supercargo /supercargo
# What it is built from, for scanners.
COPY --from=build /build/dist/supercargo.cdx.json /supercargo.cdx.json
# By number: runAsNonRoot can only be checked against a number.
USER 65532:65532
# One heap for all threads: a seventh less memory, and decoding and deciding do not get in each other's way (`make bench-e2e`).
ENV MALLOC_ARENA_MAX=1
EXPOSE 10259
STOPSIGNAL SIGTERM
ENTRYPOINT ["/supercargo"]
