// Package follow reads what reconcilers need of the PipelineRuns that they made or
// follow: the recorded one by identity, its state as a decision sees it, and its
// TaskRuns. It writes nothing.
package follow
