package promql

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const monitoring = "../../monitoring"

// served are the labels of each metric that a real scrape had: test/broker
// compares the list with what the controllers serve.
func served(t *testing.T) map[string][]string {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "broker", "testdata", "metrics.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := map[string][]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		found[words[0]] = words[1:]
	}
	return found
}

// expressions are all PromQL of alerts and dashboard, by where they stand.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	var rules struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Alert, Expr string }
			}
		}
	}
	read(t, "alerts.yaml", &rules)
	for _, group := range rules.Spec.Groups {
		for _, rule := range group.Rules {
			all["alert "+rule.Alert] = rule.Expr
		}
	}
	var configMap struct{ Data map[string]string }
	read(t, "dashboard.yaml", &configMap)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
	}
	if err := json.Unmarshal([]byte(configMap.Data["guestcluster.json"]), &board); err != nil {
		t.Fatal(err)
	}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			all["panel "+panel.Title+": "+target.Expr] = target.Expr
		}
	}
	for _, variable := range board.Templating.List {
		if variable.Type == "datasource" {
			continue
		}
		query := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(variable.Query)
		if query == nil {
			t.Errorf("variable %s has query %q", variable.Name, variable.Query)
			continue
		}
		all["variable "+variable.Name] = "count by (" + query[2] + ") (" + query[1] + ")"
	}
	return all
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(monitoring, name))
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// grafana replaces what Grafana fills in before Prometheus sees it.
var grafana = strings.NewReplacer("$__rate_interval", "5m", "$pool_namespace", ".*", "$pool", ".*")

// Every metric and label that alerts and dashboard use is served.
func TestExpressionsUseWhatIsServed(t *testing.T) {
	metrics, all := served(t), expressions(t)
	if len(all) < 12 {
		t.Fatalf("found only %d expressions", len(all))
	}
	for where, text := range all {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(grafana.Replace(text))
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		for _, problem := range unserved(expr, metrics) {
			t.Errorf("%s: %s", where, problem)
		}
	}
}

// TestUnservedIsFound proves that the check can fail.
func TestUnservedIsFound(t *testing.T) {
	metrics := map[string][]string{"a": {"pool"}}
	for text, want := range map[string]int{
		`sum by (pool) (a)`: 0, `sum by (pod) (a)`: 1, `b`: 1, `a{pod="x"}`: 1, `a / on (pod) a`: 1, `rate(a[5m]) > 0`: 0,
	} {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := unserved(expr, metrics); len(got) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func unserved(expr parser.Expr, metrics map[string][]string) []string {
	var problems, known, asked []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			has, ok := metrics[n.Name]
			if !ok {
				problems = append(problems, "no metric "+n.Name)
				return nil
			}
			known = append(known, has...)
			for _, m := range n.LabelMatchers {
				if m.Name != labels.MetricName && !slices.Contains(has, m.Name) {
					problems = append(problems, n.Name+" has no label "+m.Name)
				}
			}
		case *parser.AggregateExpr:
			asked = append(asked, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				asked = append(asked, n.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	for _, label := range asked {
		if !slices.Contains(known, label) {
			problems = append(problems, "no metric of it has label "+label)
		}
	}
	return problems
}
