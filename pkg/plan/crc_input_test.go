package plan

import (
	"strings"
	"testing"
)

func TestPullSecretProblem(t *testing.T) {
	const good = `"auth": "dXNlcjpodW50ZXIy"` // user:hunter2
	rows := map[string]struct{ raw, want string }{
		"a good one":                        {`{"auths": {"quay.io": {` + good + `, "email": "a@b"}}}`, ""},
		"one with a credential store":       {`{"auths": {"quay.io": {"credsStore": "secretservice"}}}`, ""},
		"nothing":                           {"", "empty"},
		"blanks":                            {" \n", "empty"},
		"the parked one of a bundle":        {"{}\n", "no auths"},
		"no registry":                       {`{"auths": {}}`, "no auths"},
		"auths of another kind":             {`{"auths": ["quay.io"]}`, "not JSON of the form"},
		"text":                              {"hunter2", "not JSON of the form"},
		"an entry of another kind":          {`{"auths": {"quay.io": "hunter2"}}`, "not JSON of the form"},
		"two values":                        {`{"auths": {"quay.io": {` + good + `}}} {}`, "not JSON of the form"},
		"an empty entry":                    {`{"auths": {"b.io": {}, "a.io": {` + good + `}}}`, "entry 2 of 2 in auths, in order of names, has neither auth nor credsStore"},
		"an auth that is a number":          {`{"auths": {"quay.io": {"auth": 5}}}`, "has neither"},
		"an auth that is no base64":         {`{"auths": {"quay.io": {"auth": "hunter2!"}}}`, "no base64"},
		"an auth without a colon":           {`{"auths": {"quay.io": {"auth": "aHVudGVyMg=="}}}`, "user:password"},
		"an auth without a user":            {`{"auths": {"quay.io": {"auth": "Omh1bnRlcjI="}}}`, "user:password"},
		"an auth without a password":        {`{"auths": {"quay.io": {"auth": "dXNlcjo="}}}`, "user:password"},
		"one that would not fit beside all": {`{"auths": {"quay.io": {"auth": "` + strings.Repeat("A", maxPullSecret) + `"}}}`, "at most"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			got := PullSecretProblem([]byte(row.raw))
			if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
			for _, secret := range []string{"hunter2", "aHVudGVy", "quay.io"} {
				if strings.Contains(got, secret) {
					t.Errorf("%q quotes %q", got, secret)
				}
			}
		})
	}
}
