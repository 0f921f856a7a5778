package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/tidemark-go/tidemark/pkg/archive"
)

const tries = 3

// Store is a store in a bucket. Its zero value is not usable; use [Open].
type Store struct {
	client                 *minio.Core
	bucket, prefix, region string
	patience               time.Duration // of a request with its tries
}

// Open returns the store of a URL: s3://bucket/prefix, with the parameters region (default: the store is
// asked for it) and endpoint (a host or host:port, used with TLS unless http:// precedes it; default:
// Amazon's). It does not connect. The bucket must exist.
func Open(u *url.URL) (archive.Store, error) {
	query, prefix := u.Query(), strings.Trim(u.Path, "/")
	for name := range query {
		if name != "region" && name != "endpoint" {
			return nil, fmt.Errorf("the URL has a parameter %q: it may have region and endpoint", name)
		}
	}
	if u.User != nil || u.Fragment != "" || prefix != "" && !fs.ValidPath(prefix) {
		return nil, errors.New("write s3://bucket/prefix: credentials come from the environment, as AWS_ACCESS_KEY_ID")
	}
	if err := s3utils.CheckValidBucketNameStrict(u.Host); err != nil {
		return nil, fmt.Errorf("bucket is %q: %w: write s3://bucket/prefix", u.Host, err)
	}
	host, plain := strings.CutPrefix(cmp.Or(query.Get("endpoint"), "s3.amazonaws.com"), "http://")
	client, err := minio.NewCore(strings.TrimPrefix(host, "https://"), &minio.Options{
		Secure: !plain, Region: query.Get("region"), MaxRetries: tries,
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w: use a host, with its port if that is not 443", err)
	}
	return &Store{client, u.Host, prefix, query.Get("region"), 5 * time.Minute}, nil
}

// Put writes an object with one request, signed with the hashes of the content. Without TLS the client
// would send signed chunks, which some stores keep as they are.
func (s *Store) Put(ctx context.Context, name string, content []byte) error {
	if err := archive.CheckName(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	sum, check := sha256.Sum256(content), md5.Sum(content)
	_, err := s.client.PutObject(ctx, s.bucket, path.Join(s.prefix, name), bytes.NewReader(content),
		int64(len(content)), base64.StdEncoding.EncodeToString(check[:]), hex.EncodeToString(sum[:]),
		minio.PutObjectOptions{DisableContentSha256: true})
	return s.explain("write", name, err)
}

// Get reads an object.
func (s *Store) Get(ctx context.Context, name string, size int64) ([]byte, error) {
	if err := archive.CheckName(name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	body, _, _, err := s.client.GetObject(ctx, s.bucket, path.Join(s.prefix, name), minio.GetObjectOptions{})
	if err != nil {
		return nil, s.explain("read", name, err)
	}
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(io.LimitReader(body, size+1))
	if err == nil && int64(len(content)) != size {
		err = fmt.Errorf("%w: it does not have the %d bytes that it was written with", archive.ErrObject, size)
	}
	return content, s.explain("read", name, err)
}

// explain adds the place and a remedy to an error.
func (s *Store) explain(does, name string, err error) error {
	if err == nil {
		return nil
	}
	var said minio.ErrorResponse
	_ = errors.As(err, &said)
	remedy := ""
	switch code := said.Code; {
	case code == minio.NoSuchKey && does == "read":
		err = fs.ErrNotExist
	case code == minio.NoSuchKey, code == minio.NoSuchBucket:
		remedy = ": create the bucket, or correct its name or the endpoint in the URL"
	case code == minio.AccessDenied:
		remedy = ": allow s3:GetObject, s3:PutObject and s3:ListBucket to the credentials of the environment"
	case code == "InvalidAccessKeyId", code == "SignatureDoesNotMatch", code == "InvalidToken", code == "ExpiredToken":
		remedy = ": check the credentials of the environment, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	case code == minio.AuthorizationHeaderMalformed, code == minio.InvalidRegion, code == "PermanentRedirect":
		remedy = fmt.Sprintf(": the URL says region %q, the bucket's is %q", s.region, said.Region)
	}
	return fmt.Errorf("%s s3://%s at %s: %w%s", does, path.Join(s.bucket, s.prefix, name), s.client.EndpointURL().Host,
		err, remedy)
}
