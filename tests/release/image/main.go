// Image assembles the container image from release binaries as an OCI layout, without a container engine.
//
//	image build --out DIR --version V --revision COMMIT --created SECONDS --sbom FILE linux/amd64=BINARY [linux/arm64=BINARY]
//	image check DIR
//	image unpack DIR --platform linux/amd64 --to FOLDER
//	image push DIR REFERENCE [--insecure]      with the credentials of `docker login`
//	image registry                  a registry in memory on a free port of 127.0.0.1, until standard input ends
//
// The same inputs give the same bytes: all times are --created. `check` reads every blob back and compares its digest.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// A file of the image; a link if it has a target.
type file struct {
	name, link string
	mode       int64
	content    []byte
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("name a command: build, check, unpack, push or registry")
	}
	switch args[0] {
	case "build":
		return build(args[1:])
	case "check":
		return check(args[1:])
	case "unpack":
		return unpack(args[1:])
	case "push":
		return push(args[1:])
	case "registry":
		return serve()
	}
	return fmt.Errorf("unknown command %q; use build, check, unpack, push or registry", args[0])
}

func build(args []string) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	out := flags.String("out", "", "folder of the OCI layout")
	version := flags.String("version", "", "version of the program")
	revision := flags.String("revision", "", "commit")
	created := flags.Int64("created", 0, "time of the image, in seconds since 1970")
	sbom := flags.String("sbom", "", "the SBOM in CycloneDX format")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || *version == "" || *sbom == "" || flags.NArg() == 0 {
		return errors.New("build needs --out, --version, --sbom and at least one PLATFORM=BINARY")
	}
	bill, err := os.ReadFile(*sbom)
	if err != nil {
		return err
	}
	at := time.Unix(*created, 0).UTC()
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, argument := range flags.Args() {
		platform, path, found := strings.Cut(argument, "=")
		if !found {
			return fmt.Errorf("%q is not PLATFORM=BINARY", argument)
		}
		parsed, err := v1.ParsePlatform(platform)
		if err != nil {
			return fmt.Errorf("%q: %w", argument, err)
		}
		program, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		image, err := imageOf(program, bill, *parsed, at, labels(*version, *revision))
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{MediaType: types.OCIManifestSchema1, Platform: parsed},
		})
	}
	if err := os.RemoveAll(*out); err != nil {
		return err
	}
	// The layout's own index names the multi-architecture index, so that tools copy it as one image.
	target, err := layout.Write(*out, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	title := map[string]string{"org.opencontainers.image.ref.name": *version}
	if err := target.AppendIndex(index, layout.WithAnnotations(title)); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

// The labels of the Dockerfile.
func labels(version, revision string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "supercargo",
		"org.opencontainers.image.description": "A Kubernetes scheduler that makes the same decisions as kube-scheduler",
		"org.opencontainers.image.source":      "https://github.com/supercargo/supercargo",
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.revision":    revision,
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

func imageOf(program, bill []byte, platform v1.Platform, at time.Time, labels map[string]string) (v1.Image, error) {
	layers := [][]file{
		{{name: "supercargo", mode: 0o755, content: program}},
		{{name: "supercargo.cdx.json", mode: 0o644, content: bill}},
		{
			{name: "usr/", mode: 0o755},
			{name: "usr/local/", mode: 0o755},
			{name: "usr/local/bin/", mode: 0o755},
			{name: "usr/local/bin/kube-scheduler", mode: 0o777, link: "/supercargo"},
		},
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	for _, files := range layers {
		packed, err := pack(files, at)
		if err != nil {
			return nil, err
		}
		layer := static.NewLayer(packed, types.OCILayer)
		addendum := mutate.Addendum{
			Layer:     layerOf{layer, packed},
			MediaType: types.OCILayer,
			History:   v1.History{Created: v1.Time{Time: at}, CreatedBy: "make release"},
		}
		if image, err = mutate.Append(image, addendum); err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: at}
	config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
	config.Config = v1.Config{
		Entrypoint:   []string{"/supercargo"},
		Env:          []string{"PATH=/usr/local/bin", "MALLOC_ARENA_MAX=1"},
		ExposedPorts: map[string]struct{}{"10259/tcp": {}},
		Labels:       labels,
		StopSignal:   "SIGTERM",
		User:         "0:0",
	}
	return mutate.ConfigFile(image, config)
}

// A static layer whose diff id is that of the archive without compression.
type layerOf struct {
	v1.Layer
	packed []byte
}

func (layer layerOf) DiffID() (v1.Hash, error) {
	archive, err := layer.Uncompressed()
	if err != nil {
		return v1.Hash{}, err
	}
	defer archive.Close()
	hash, _, err := v1.SHA256(archive)
	return hash, err
}

func (layer layerOf) Uncompressed() (io.ReadCloser, error) {
	return gzip.NewReader(bytes.NewReader(layer.packed))
}

// Returns a compressed archive of the files.
func pack(files []file, at time.Time) ([]byte, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(zip)
	for _, file := range files {
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.content)), ModTime: at, Format: tar.FormatPAX}
		switch {
		case file.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, file.link
		case strings.HasSuffix(file.name, "/"):
			header.Typeflag = tar.TypeDir
		default:
			header.Typeflag = tar.TypeReg
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(file.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// Opens the multi-architecture index of a layout.
func open(folder string) (v1.ImageIndex, error) {
	path, err := layout.FromPath(folder)
	if err != nil {
		return nil, err
	}
	root, err := path.ImageIndex()
	if err != nil {
		return nil, err
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d images, not one", folder, len(manifest.Manifests))
	}
	return root.ImageIndex(manifest.Manifests[0].Digest)
}

func push(args []string) error {
	if len(args) < 2 || len(args) > 3 || len(args) == 3 && args[2] != "--insecure" {
		return errors.New("push needs the folder of an OCI layout and a reference")
	}
	index, err := open(args[0])
	if err != nil {
		return err
	}
	var options []name.Option
	if len(args) == 3 {
		options = append(options, name.Insecure)
	}
	reference, err := name.ParseReference(args[1], options...)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(reference, index, remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	pushed, err := remote.Head(reference, remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return err
	}
	if digest, err := index.Digest(); err != nil || digest != pushed.Digest {
		return fmt.Errorf("the registry has %s, not %s (%v)", pushed.Digest, digest, err)
	}
	return nil
}

// Serves a registry in memory, so that pushes can be rehearsed. Prints its address.
func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(listener, registry.New(registry.Logger(log.New(io.Discard, "", 0)))) }()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	select {
	case err := <-failed:
		return err
	case <-ended:
		return nil
	}
}

func check(args []string) error {
	if len(args) != 1 {
		return errors.New("check needs the folder of an OCI layout")
	}
	index, err := open(args[0])
	if err != nil {
		return err
	}
	if err := validate.Index(index); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, of := range manifest.Manifests {
		image, err := index.Image(of.Digest)
		if err != nil {
			return err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return err
		}
		if config.Architecture != of.Platform.Architecture || config.OS != of.Platform.OS {
			return fmt.Errorf("%s: the index says %s, the image %s/%s", of.Digest, of.Platform, config.OS, config.Architecture)
		}
		layers, err := image.Layers()
		if err != nil {
			return err
		}
		fmt.Printf("%s %s, %d layers, runs %s\n", of.Platform, of.Digest, len(layers), strings.Join(config.Config.Entrypoint, " "))
	}
	return nil
}

func unpack(args []string) error {
	flags := flag.NewFlagSet("unpack", flag.ContinueOnError)
	platform := flags.String("platform", "linux/amd64", "platform")
	to := flags.String("to", "", "folder that gets the files")
	if len(args) == 0 {
		return errors.New("unpack needs the folder of an OCI layout")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	index, err := open(args[0])
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, of := range manifest.Manifests {
		if of.Platform.String() != *platform {
			continue
		}
		image, err := index.Image(of.Digest)
		if err != nil {
			return err
		}
		files := mutate.Extract(image)
		defer files.Close()
		return extract(files, *to)
	}
	return fmt.Errorf("no image for %s", *platform)
}

func extract(from io.Reader, to string) error {
	to, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	archive := tar.NewReader(from)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		local := filepath.Clean(header.Name)
		if !filepath.IsLocal(local) {
			return fmt.Errorf("%q leaves the folder", header.Name)
		}
		path := filepath.Join(to, local)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(filepath.Join(to, header.Linkname), path)
		default:
			err = write(path, archive, os.FileMode(header.Mode))
		}
		if err != nil {
			return err
		}
	}
}

func write(path string, from io.Reader, mode os.FileMode) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, from); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}
