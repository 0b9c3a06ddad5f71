# Runs the demo:  docker build -t surefoot . && docker run --rm -v "$PWD/surefoot-runs:/runs" surefoot
# The page is surefoot-runs/report.html afterwards. Any other command works too: docker run … surefoot surefoot audit …
FROM python:3.11-slim

# Where a CPU build of torch is found: --build-arg TORCH_INDEX=URL. Without it pip chooses, and takes one with CUDA.
ARG TORCH_INDEX=""

WORKDIR /app
COPY constraints.txt ./
RUN pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt \
        ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch

COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt . \
    && useradd --create-home surefoot && mkdir /runs && chown surefoot /runs

USER surefoot
WORKDIR /runs
VOLUME /runs
CMD ["surefoot", "compare", "--out", "/runs"]
