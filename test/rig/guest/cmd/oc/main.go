// Command oc turns the calls of OpenShift's oc that kubectl does not know into
// those it knows, and becomes the kubectl on the path.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "version" {
		os.Args = append([]string{os.Args[0], "version", "--client"}, os.Args[2:]...)
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		fmt.Fprintln(os.Stderr, "oc: no kubectl on the path")
		os.Exit(1)
	}
	args := append([]string{"kubectl"}, translate(os.Args[1:])...)
	fmt.Fprintln(os.Stderr, "oc:", syscall.Exec(kubectl, args, os.Environ()))
	os.Exit(1)
}

// translate drops "adm" where kubectl has the command at the top.
func translate(args []string) []string {
	var out []string
	verb := ""
	for _, arg := range args {
		if verb == "" && !strings.HasPrefix(arg, "-") {
			if arg == "adm" {
				continue
			}
			if arg == "whoami" {
				out = append(out, "auth")
			}
			verb = arg
		}
		out = append(out, arg)
	}
	return out
}
