package step

import "os"

// Result is a value for the file that the Task names. Never a secret: results
// are readable by all who may read the run.
type Result struct {
	Path, Value string
}

// WriteResults writes all results. A step calls it once, as its last act.
func WriteResults(results ...Result) error {
	for _, r := range results {
		if err := os.WriteFile(r.Path, []byte(r.Value), 0o644); err != nil {
			return InfraError("write result: %w", err)
		}
	}
	return nil
}
