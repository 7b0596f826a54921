// Command generate writes the kinds of package crds: the schemas come from the
// generated Go source of KubeVirt's and CDI's modules, which are too large to
// be imported for it.
package main
