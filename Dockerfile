# The program alone. Without arguments it runs the demo, which needs no data:
#
#   docker build -t tokenmill .
#   docker run --rm -v "$PWD/out:/data/out" tokenmill
#   docker run --rm -v "$PWD:/data" tokenmill train corpus.txt -o my-tokenizer --vocab-size 4096
FROM rust:1.95-slim-trixie AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin tokenmill

FROM debian:trixie-slim
# The certificates that connections trust.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/target/release/tokenmill /usr/local/bin/tokenmill
COPY pipelines/demo.toml /data/pipelines/demo.toml
WORKDIR /data
ENTRYPOINT ["tokenmill"]
CMD ["run", "pipelines/demo.toml"]
