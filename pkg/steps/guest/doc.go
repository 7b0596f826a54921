// Package guest is the way into a CRC guest: SSH with one key for each
// connection and a host key that is pinned for each VMI, commands and files by
// constant command lines, and the guest's API through an SSH tunnel. It trusts
// nothing that the guest says and bounds all of it. What is done there is not here.
package guest
