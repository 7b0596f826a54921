package mirror

// Odds are the odd bundles by what a reader meets first: 4.97 are about the
// way from the server, 4.98 about the bundle itself.
var Odds = append(servers(), bundles()...)

func servers() []Odd {
	return []Odd{
		{Version: "4.97.1", What: "the list is there, the bundle is not", Fault: "404", Refused: true},
		{Version: "4.97.2", What: "no list of checksums", Refused: true, change: publishing(withoutList)},
		{Version: "4.97.3", What: "a list without the bundle's line", Refused: true, change: publishing(withoutLine)},
		{Version: "4.97.4", What: "cut in the middle, resumable", Fault: "cut"},
		{Version: "4.97.5", What: "cut in the middle, again and again at one place", Fault: "stuck", Refused: true},
		{Version: "4.97.6", What: "slow", Fault: "slow"},
		{Version: "4.97.7", What: "silent from the middle on", Fault: "stall", Refused: true},
		{Version: "4.97.8", What: "redirected to the other host that publishes bundles", Fault: "redirect"},
		{Version: "4.97.9", What: "redirected to plain http of a foreign host", Fault: "elsewhere", Refused: true},
		{Version: "4.97.10", What: "every other request answered 503", Fault: "flaky"},
		{Version: "4.97.11", What: "cut in the middle, then another ETag and no ranges", Fault: "changed"},
		{Version: "4.97.12", What: "always 503", Fault: "503", Refused: true},
		{Version: "4.97.13", What: "redirected to itself", Fault: "loop", Refused: true},
	}
}

func bundles() []Odd {
	return append([]Odd{
		{Version: "4.98.0", What: "nothing: as published"},
		{Version: "4.98.0-rc.0", What: "a version before a release"},
		{Version: "4.98.1", What: "a disk of 43 GiB", VirtualSize: Size43},
		{Version: "4.98.2", What: "sparse members as PAX has them", change: func(r *recipe) { r.tar = append(r.tar, "--format=posix") }},
		{Version: "4.98.3", What: "sparse members as old GNU tar has them", change: func(r *recipe) { r.tar = append(r.tar, "--format=oldgnu") }},
		{Version: "4.98.4", What: "members with other names", change: func(r *recipe) {
			r.members = members{disk: "acme-local.qcow2", key: "id_ecdsa_acme", kubeconfig: "admin.kubeconfig", oc: "oc-linux"}
		}},
		{Version: "4.98.5", Arch: "arm64", What: "a bundle for arm64"},
		{Version: "4.98.6", What: "a custom bundle: type snc_custom, Go's way of printing a time, a pull secret", change: custom},
		{Version: "4.98.9", What: "a good archive with another checksum in the list", Refused: true, change: publishing(otherSum)},
		{Version: "4.98.10", What: "a damaged archive", Refused: true, change: publishing(flipByte)},
		{Version: "4.98.11", What: "a truncated archive with the right checksum", Refused: true, change: func(r *recipe) { r.packed = truncate }},
		{Version: "4.98.12", What: "no key", Refused: true, change: without("id_ecdsa_crc")},
		{Version: "4.98.13", What: "no kubeconfig", Refused: true, change: without("kubeconfig")},
		{Version: "4.98.14", What: "no disk", Refused: true, change: without("crc.qcow2")},
		{Version: "4.98.15", What: "no metadata", Refused: true, change: without(infoName)},
		{Version: "4.98.16", What: "a zstd window beyond 128 MiB", Refused: true, change: wideWindow},
		{Version: "4.98.17", What: "a member outside of the directory", Refused: true, change: escape},
		{Version: "4.98.18", What: "packed with gzip", Refused: true, change: func(r *recipe) { r.compress = []string{"gzip", "-1"} }},
		{Version: "4.98.19", What: "a key that is a symbolic link", Refused: true, change: replacing("id_ecdsa_crc", linkToPasswd)},
		{Version: "4.98.20", What: "a disk with a backing file", Refused: true, change: func(r *recipe) { r.laid = inPlaceOf("crc.qcow2", backed) }},
		{Version: "4.98.21", What: "a disk that is no qcow2 image", Refused: true, change: func(r *recipe) { r.laid = inPlaceOf("crc.qcow2", text) }},
		{Version: "4.98.22", What: "zeros that unpack to far more than they pack to", Refused: true, change: bomb},
	}, mistakes()...)
}

// mistakes are wrong metadata of a good bundle.
func mistakes() []Odd {
	var all []Odd
	for _, m := range []struct {
		version, what string
		edit          func(map[string]any)
	}{
		{"4.98.30", "sizes as numbers", sizesAsNumbers},
		{"4.98.31", "no sshPrivateKeyFile", drop("clusterInfo", "sshPrivateKeyFile")},
		{"4.98.32", "schema version 2.0", set("version", "2.0")},
		{"4.98.33", "amd64 by name, arm64 inside", set("arch", "arm64")},
		{"4.98.34", "preset microshift", set("type", "microshift")},
		{"4.98.35", "a disk of format vhdx", inDisk("format", "vhdx")},
		{"4.98.36", "another size of the disk than told", inDisk("size", "4096")},
		{"4.98.37", "another OpenShift version inside", inCluster("openshiftVersion", "4.1.0")},
		{"4.98.38", "made for vfkit", set("driverInfo", map[string]any{"name": "vfkit"})},
		{"4.98.39", "no storage", drop("storage")},
		{"4.98.40", "a key file with a path", inCluster("sshPrivateKeyFile", "../../etc/passwd")},
		{"4.98.41", "a domain that is not CRC's", inCluster("baseDomain", "example.com")},
	} {
		all = append(all, Odd{Version: m.version, What: m.what, Refused: true, change: func(r *recipe) { r.edit = m.edit }})
	}
	return append(all, Odd{
		Version: "4.98.42", What: "metadata that is no JSON", Refused: true, change: replacing(infoName, text),
	})
}
