# The daemon without an agent CLI: sessions are simulated until you add one on top, for example
#   FROM trunkline
#   USER root
#   RUN apt-get update && apt-get install -y --no-install-recommends npm && npm install -g @anthropic-ai/claude-code
#   USER trunkline
#
# Build and run (the port is published on this machine only; the token is in the volume):
#   docker build -t trunkline .
#   docker run --rm --stop-timeout 45 -p 127.0.0.1:7433:7433 -v trunkline:/data -v "$PWD":/work trunkline
# The daemon does what process 1 must do; --init does no harm.
# Sessions run as user 10001, which must be able to write to what is mounted at /work.
#   docker exec CONTAINER cat /data/token

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY benches benches
COPY migrations migrations
COPY src src
RUN cargo build --release --locked --bin trunkline

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 trunkline \
    && install -d -m 0700 -o trunkline -g trunkline /data /run/trunkline \
    && install -d -o trunkline -g trunkline /work
COPY --from=build /src/target/release/trunkline /usr/local/bin/trunkline
USER trunkline
WORKDIR /work
VOLUME ["/data", "/work"]
ENV TRUNKLINE_DATA_DIR=/data \
    TRUNKLINE_DATA_RUNTIME_DIR=/run/trunkline
EXPOSE 7433
# Inside the container it must listen on all addresses; who may reach it is decided by how the port is published.
ENTRYPOINT ["trunkline"]
CMD ["serve", "--listen", "0.0.0.0:7433", "--insecure"]
