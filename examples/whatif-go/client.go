package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Object is a Kubernetes object in its JSON form.
type Object = map[string]any

// Client talks to `supercargo whatif serve`.
type Client struct {
	server string
	token  string
	http   *http.Client
}

// NewClient returns a client of the server at this URL. ca holds the server's certificate authority in PEM; if it is
// empty, the certificate is not verified.
func NewClient(server, token string, ca []byte) (*Client, error) {
	config := &tls.Config{InsecureSkipVerify: len(ca) == 0}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("the certificate authority is not PEM")
		}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	return &Client{server: server, token: token, http: &http.Client{Transport: transport, Timeout: time.Minute}}, nil
}

// retries is how often a request is repeated while the server is busy.
const retries = 5

// Do sends a request with a JSON body, unless in is nil, and decodes the answer into out, unless that is nil. Requests
// that the server cannot take now are repeated after the time that it names.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	for attempt := 0; ; attempt++ {
		request, err := http.NewRequestWithContext(ctx, method, c.server+"/whatif/v1/"+path, bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+c.token)
		response, err := c.http.Do(request)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		if seconds > 0 && attempt < retries {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(seconds) * time.Second):
				continue
			}
		}
		if response.StatusCode >= 300 {
			var status struct{ Message string }
			_ = json.Unmarshal(text, &status)
			return fmt.Errorf("%s %s: %d: %s", method, path, response.StatusCode, status.Message)
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(text, out)
	}
}

// Placement is what the scheduler decides about a pod.
type Placement struct {
	Pod     string   `json:"pod"`
	Node    *string  `json:"node"`
	Message *string  `json:"message"`
	Victims []string `json:"victims"`
}

// Fork is a hypothetical cluster: a snapshot with changes.
type Fork struct {
	client  *Client
	id      string
	changes int
}

type named struct {
	ID      string `json:"id"`
	Changes int    `json:"changes"`
}

// Upload uploads a cluster, and returns its id.
func (c *Client) Upload(ctx context.Context, objects []Object) (string, error) {
	var answer named
	list := Object{"apiVersion": "v1", "kind": "List", "items": objects}
	err := c.Do(ctx, http.MethodPost, "snapshots", list, &answer)
	return answer.ID, err
}

// Fork makes a fork of a snapshot, such as "live".
func (c *Client) Fork(ctx context.Context, of string) (*Fork, error) {
	var answer named
	err := c.Do(ctx, http.MethodPost, "forks", Object{"of": of}, &answer)
	return &Fork{client: c, id: answer.ID}, err
}

// Delete deletes the fork. The server deletes it, too, if nobody asks about it for some time.
func (f *Fork) Delete(ctx context.Context) error {
	return f.client.Do(ctx, http.MethodDelete, "forks/"+f.id, nil, nil)
}

// change makes a change of the fork.
func (f *Fork) change(ctx context.Context, name string, in, out any) error {
	err := f.client.Do(ctx, http.MethodPost, "forks/"+f.id+"/"+name, in, out)
	if err == nil {
		f.changes++
	}
	return err
}

// ask asks a question, which changes nothing.
func (f *Fork) ask(ctx context.Context, question string, in, out any) error {
	return f.client.Do(ctx, http.MethodPost, "forks/"+f.id+"/"+question, in, out)
}

// Place places pods and workloads, each pod counting for the next.
func (f *Fork) Place(ctx context.Context, objects []Object) ([]Placement, error) {
	var answer struct {
		Placements []Placement `json:"placements"`
	}
	err := f.change(ctx, "place", Object{"objects": objects}, &answer)
	return answer.Placements, err
}

// Evict evicts pods, given as namespace/name.
func (f *Fork) Evict(ctx context.Context, pods []string) error {
	return f.change(ctx, "evict", Object{"pods": pods}, nil)
}

// UndoTo undoes the last changes until this many are left.
func (f *Fork) UndoTo(ctx context.Context, changes int) error {
	if f.changes <= changes {
		return nil
	}
	var answer named
	err := f.ask(ctx, "undo", Object{"changes": f.changes - changes}, &answer)
	if err == nil {
		f.changes = answer.Changes
	}
	return err
}
