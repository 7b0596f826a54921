// Package promql checks the alerts and the dashboard in monitoring/ against
// the metrics that the controller serves, with Prometheus' own parser. It is a
// module of its own: Prometheus asks for other versions of what we use.
package promql
