# The image of the Deployment in manifests/, and of static pods in kube-scheduler's place: one static binary and its SBOM, without shell or package manager.
#
#   docker build -t supercargo:0.1.0 --build-arg REVISION="$(git rev-parse HEAD)" .
#
# Builds for the builder's architecture; use an arm64 builder for arm64. The build step is that of `make`.

# Links the C library that `make release-check` and the benchmarks use. The version is that of rust-toolchain.toml.
FROM rust:1.95.0-slim-trixie AS build
# The base image has bash and a C compiler for ring; only make is missing.
RUN apt-get update && apt-get install --yes --no-install-recommends make && rm -rf /var/lib/apt/lists/*
# Selects the installed toolchain; otherwise rustup would download clippy and rustfmt for rust-toolchain.toml.
ENV RUSTUP_TOOLCHAIN=1.95.0 CARGO_TARGET_DIR=/build
WORKDIR /source
COPY . .
# The commit for `--version`, since the build context has no .git.
ARG REVISION=unknown
ENV SUPERCARGO_COMMIT=${REVISION}
RUN make release-binary sbom
# A link on PATH, for manifests that call `kube-scheduler`: under that name the program has kube-scheduler's defaults.
RUN mkdir -p /build/links/usr/local/bin && ln -s /supercargo /build/links/usr/local/bin/kube-scheduler

# Nothing else is needed at run time: the API server's certificate authority comes with the ServiceAccount's token.
FROM scratch
ARG REVISION=unknown
LABEL org.opencontainers.image.title="supercargo" \
      org.opencontainers.image.description="A Kubernetes scheduler that makes the same decisions as kube-scheduler" \
      org.opencontainers.image.source="https://github.com/supercargo/supercargo" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /build/dist/supercargo /supercargo
# The SBOM, for scanners.
COPY --from=build /build/dist/supercargo.cdx.json /supercargo.cdx.json
COPY --from=build /build/links/ /
ENV PATH=/usr/local/bin
# As kube-scheduler's image: in a static pod of kubeadm, only root can read scheduler.conf. manifests/ run it as 65532.
USER 0:0
# One malloc arena for all threads: a seventh less memory without measurable contention (`make bench-e2e`).
ENV MALLOC_ARENA_MAX=1
EXPOSE 10259
STOPSIGNAL SIGTERM
ENTRYPOINT ["/supercargo"]
