// Package stack checks what runs and releases the gateway beside the chart: Dockerfile,
// compose.yaml with the files that it mounts, and .goreleaser.yaml.
package stack
