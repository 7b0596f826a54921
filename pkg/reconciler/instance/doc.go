// Package instance makes, follows, probes and destroys single clusters. It
// acts; what to do is decided in pkg/plan, what to build in resources and
// pkg/runs. Which instances exist and whom they serve is decided elsewhere.
package instance
